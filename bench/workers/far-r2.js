/** The gateway over an R2 bucket that answers each read FAR_MS late, as one in a data centre does. */
import gateway from "../../worker/index.ts";

export { Branch, Pipeline } from "../../worker/index.ts";

/** What the gateway keeps, it keeps for an environment. */
let farEnv;

export default {
  fetch(request, env, context) {
    farEnv ??= { ...env, BLOBS: farBucket(env.BLOBS, Number(env.FAR_MS)) };
    return gateway.fetch(request, farEnv, context);
  },
};

function farBucket(blobs, farMs) {
  return {
    put: (...args) => blobs.put(...args),
    list: (...args) => blobs.list(...args),
    delete: (...args) => blobs.delete(...args),
    async get(...args) {
      await scheduler.wait(farMs);
      return await blobs.get(...args);
    },
  };
}

import { openContext } from "./app.ts";
import { type Env, readConfig } from "./env.ts";
import { handleS3 } from "./s3/gateway.ts";

export { Branch } from "./branch-interim/branch.ts";
export { Pipeline } from "./pipeline/pipeline.ts";

export default {
  async fetch(request, env): Promise<Response> {
    const path = pathOf(request.url);
    if (path === "/healthz") return new Response("ok\n");
    const config = readConfig(env);
    if (!config.ok) return new Response(`The gateway is not set up: ${config.problem}\n`, { status: 503 });
    const context = openContext(env);
    return handleS3(request, { context, rootKey: config.config.rootKey, now: Date.now });
  },
} satisfies ExportedHandler<Env>;

/** The path of an absolute URL, as it came: parsing would rewrite it. */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return "/";
  const end = url.indexOf("?", start);
  return end < 0 ? url.slice(start) : url.slice(start, end);
}

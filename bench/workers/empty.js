/** A client keeps a connection behind a HEAD only if the answer tells a length, as the gateway's does. */
const NO_BYTES = new Headers({ "content-length": "0" });

/** Does nothing: what any Worker costs on this host. */
export default {
  async fetch({ method }) {
    return method === "HEAD" ? new Response(null, { headers: NO_BYTES }) : new Response();
  },
};

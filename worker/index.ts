import type { Env } from "./env.ts";

export { Branch } from "./branch/branch.ts";
export { Pipeline } from "./pipeline/pipeline.ts";

export default {
  async fetch(request: Request): Promise<Response> {
    return new Response(`not here: ${request.url}`, { status: 404 });
  },
} satisfies ExportedHandler<Env>;

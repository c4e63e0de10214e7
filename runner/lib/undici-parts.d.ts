/** Modules of undici, by their files: its entry loads a browser's whole network, which takes longer than most commands. */
declare module "undici/lib/dispatcher/pool.js" {
  export { Pool as default } from "undici";
}

declare module "undici/lib/api/api-request.js" {
  import type { Dispatcher } from "undici";

  /** `Dispatcher.request`, as a function. */
  export default function request(
    this: Dispatcher,
    options: Dispatcher.RequestOptions,
  ): Promise<Dispatcher.ResponseData>;
}

declare module "undici/lib/web/websocket/websocket.js" {
  import type { WebSocket } from "undici";

  const parts: { readonly WebSocket: typeof WebSocket };
  export default parts;
}

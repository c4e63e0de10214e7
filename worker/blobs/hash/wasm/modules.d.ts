/** A WebAssembly module of the bundle: compiled by the host, which refuses those that come as bytes. */
declare module "*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}

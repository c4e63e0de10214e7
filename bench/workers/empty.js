/** Does nothing: what any Worker costs on this host. */
export default {
  async fetch() {
    return new Response();
  },
};

/**
 * Streams to and from the disk service (DISK) or an R2 bucket (BLOBS), which answers reads FAR_MS late, and does nothing else: no names, no hashes, no
 * signatures. The fastest way that bodies go through a Worker on this host: in, read into two 4 MiB buffers, of which
 * one is on its way while the other fills; out, stream after stream, without touching the bytes.
 */
const CHUNK_BYTES = 4 * 1024 * 1024;

export default {
  fetch(request, { DISK, BLOBS, FAR_MS }) {
    const store = BLOBS ? bucket(BLOBS, Number(FAR_MS ?? 0)) : folder(DISK);
    const { pathname } = new URL(request.url);
    return request.method === "PUT" ? take(request, { store, pathname }) : send({ store, pathname });
  },
};

async function take(request, { store, pathname }) {
  const size = Number(request.headers.get("content-length"));
  const reader = request.body.getReader({ mode: "byob" });
  const buffers = [new ArrayBuffer(CHUNK_BYTES), new ArrayBuffer(CHUNK_BYTES)];
  let inFlight = Promise.resolve();
  for (let start = 0; start < size; start += CHUNK_BYTES) {
    const turn = (start / CHUNK_BYTES) % 2;
    const length = Math.min(CHUNK_BYTES, size - start);
    const { value } = await reader.readAtLeast(length, new Uint8Array(buffers[turn], 0, length));
    buffers[turn] = value.buffer;
    await inFlight;
    inFlight = store.put(`${pathname}/${start}`, value);
  }
  await inFlight;
  await store.put(`${pathname}/size`, String(size));
  return new Response();
}

async function send({ store, pathname }) {
  const size = Number(await new Response(await store.get(`${pathname}/size`)).text());
  const { readable, writable } = new FixedLengthStream(size);
  pump(writable, { store, pathname, size }).catch(() => {});
  return new Response(readable);
}

async function pump(writable, { store, pathname, size }) {
  let next = store.get(`${pathname}/0`);
  for (let start = 0; start < size; start += CHUNK_BYTES) {
    const body = await next;
    const after = start + CHUNK_BYTES;
    if (after < size) next = store.get(`${pathname}/${after}`);
    await body.pipeTo(writable, { preventClose: true });
  }
  await writable.close();
}

function folder(disk) {
  return {
    async put(name, body) {
      const { ok, status } = await disk.fetch(`http://disk${name}`, { method: "PUT", body });
      if (!ok) throw new Error(`the disk service answered ${status}`);
    },
    async get(name) {
      return (await disk.fetch(`http://disk${name}`)).body;
    },
  };
}

function bucket(blobs, farMs) {
  return {
    put: (name, body) => blobs.put(name, body),
    async get(name) {
      if (farMs > 0) await scheduler.wait(farMs);
      return (await blobs.get(name)).body;
    },
  };
}

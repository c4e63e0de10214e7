/** What is packed in bytes, as far as they go, at most so much; nothing if they are no gzip. */
export async function unzippedStart(
  bytes: Uint8Array<ArrayBuffer>,
  most: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    while (length < most) {
      const { value, done } = await reader.read();
      if (done) break;
      chunks.push(value);
      length += value.length;
    }
  } catch {
    // The rest of the file is not here: what came before counts.
  }
  await reader.cancel().catch(() => undefined);
  const all = new Uint8Array(length);
  let place = 0;
  for (const chunk of chunks) {
    all.set(chunk, place);
    place += chunk.length;
  }
  return all.subarray(0, most);
}

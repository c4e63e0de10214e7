const MOST = 512;
const WIDTH = 16;

/** The first bytes of what is no text. */
export function Hex({ bytes }: { readonly bytes: Uint8Array }) {
  const shown = bytes.subarray(0, MOST);
  const lines = Array.from({ length: Math.ceil(shown.length / WIDTH) }, (_, index) =>
    lineOf(shown.subarray(index * WIDTH, (index + 1) * WIDTH), index * WIDTH),
  );
  return (
    <>
      <p className="quiet">These bytes are no text, and nothing that a browser draws. They begin so:</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys. */}
      <section className="text" aria-label="Bytes" tabIndex={0}>
        <pre>{lines.join("\n")}</pre>
      </section>
    </>
  );
}

/** `00000010  50 4b 03 04 …  PK..` */
function lineOf(bytes: Uint8Array, offset: number): string {
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const text = [...bytes]
    .map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "."))
    .join("");
  return `${offset.toString(16).padStart(8, "0")}  ${hex.padEnd(3 * WIDTH)} ${text}`;
}

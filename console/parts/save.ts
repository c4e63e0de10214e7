/** How long a browser may take to begin with a blob that it was told to save. */
const BLOB_MS = 60_000;

/** Has the browser save bytes as a file. */
export function save(bytes: Blob, name: string): void {
  const link = document.createElement("a");
  // A type that nothing is shown as, whatever the file says of itself.
  link.href = URL.createObjectURL(bytes.slice(0, bytes.size, "application/octet-stream"));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), BLOB_MS);
}

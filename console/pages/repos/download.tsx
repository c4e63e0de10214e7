import { useEffect, useRef, useState } from "react";
import { Bucket, type Place } from "../../gateway/s3.ts";
import { Button, Fault, useAct } from "../../parts/form.tsx";
import { sizeText } from "../../parts/words.tsx";
import { cliAddress, lastName } from "../addresses.ts";

/*
 * A download is signed in a header, like all else: a link to the file itself would have a signature in its address, which
 * histories and proxies keep. So the bytes come through this page. Up to a bound they become a blob, of a type that no
 * browser shows as a page; larger files are written to the disk as they come, if the browser can do that; else the command
 * line fetches them.
 */

/** Most that is held for a download. */
const MOST_HELD = 256 * 1024 * 1024;

type SavePicker = (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;

/** Asks where to save a file; not every browser has it. */
function savePicker(): SavePicker | undefined {
  const { showSaveFilePicker } = globalThis as { showSaveFilePicker?: SavePicker };
  return showSaveFilePicker?.bind(globalThis);
}

interface DownloadProps {
  readonly place: Place;
  readonly path: string;
  readonly size: number;
}

/** A button that saves a file. */
export function Download({ place, path, size }: DownloadProps) {
  const [got, setGot] = useState<number>();
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => () => stopping.current?.abort(), []);
  const picker = savePicker();
  const name = lastName(path);
  const { fault, run } = useAct(async (gateway) => {
    const controller = new AbortController();
    stopping.current = controller;
    const { signal } = controller;
    try {
      const target = size > MOST_HELD ? await picker?.({ suggestedName: name }) : undefined;
      setGot(0);
      const bytes = await new Bucket(gateway, place).read(path, signal);
      const counted = bytes.pipeThrough(counter((count) => setGot((before = 0) => before + count)));
      if (target) await counted.pipeTo(await target.createWritable(), { signal });
      else save(await new Response(counted).blob(), name);
    } catch (error) {
      // Somebody cancelled it, here or in the browser's own dialog.
      if (error instanceof DOMException && error.name === "AbortError") return;
      if (!(error instanceof TypeError)) throw error;
      const line = `'sluice cp ${cliAddress(place, path).text} .'`;
      throw new Error(`The connection broke off. ${line} tries again by itself.`);
    } finally {
      setGot(undefined);
    }
  });
  if (size > MOST_HELD && !picker) {
    return (
      <span>
        {sizeText(size)} are more than this browser can save from a page: the line beside this does it.
      </span>
    );
  }
  return (
    <span className="action">
      {got === undefined ? (
        <Button act={run}>Download</Button>
      ) : (
        <>
          <progress value={got} max={size} aria-label="What has come" />
          <span>
            {sizeText(got)} of {sizeText(size)}
          </span>
          <Button act={() => stopping.current?.abort()}>Cancel</Button>
        </>
      )}
      <Fault words={fault} as="span" />
    </span>
  );
}

type Bytes = Uint8Array<ArrayBuffer>;

/** Tells of bytes that pass, some times a second. */
function counter(tell: (count: number) => void): TransformStream<Bytes, Bytes> {
  let untold = 0;
  let toldAt = 0;
  return new TransformStream({
    transform(chunk, out) {
      untold += chunk.length;
      if (Date.now() - toldAt > 100) {
        tell(untold);
        untold = 0;
        toldAt = Date.now();
      }
      out.enqueue(chunk);
    },
  });
}

/** How long a browser may take to begin with a blob that it was told to save. */
const BLOB_MS = 60_000;

function save(bytes: Blob, name: string): void {
  const link = document.createElement("a");
  // A type that nothing is shown as, whatever the file says of itself.
  link.href = URL.createObjectURL(bytes.slice(0, bytes.size, "application/octet-stream"));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), BLOB_MS);
}

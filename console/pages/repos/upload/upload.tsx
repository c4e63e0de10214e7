import {
  type ChangeEvent,
  type DragEvent,
  useEffect,
  useId,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { Link } from "wouter";
import type { Gateway } from "../../../gateway/gateway.ts";
import { bucketOf, type Place } from "../../../gateway/s3.ts";
import { useSession } from "../../../gateway/session.ts";
import { CliLine, command } from "../../../parts/cli-line.tsx";
import { Button, Fault, Field } from "../../../parts/form.tsx";
import { counted, countText, Mono, sizeText } from "../../../parts/words.tsx";
import { branchHref, cliAddress, diffHref } from "../../addresses.ts";
import { type Source, Uploader } from "./uploader.ts";

/** The upload of each bucket, which goes on while other folders and pages are looked at; with the session it ends. */
const uploads = new WeakMap<Gateway, Map<string, Uploader>>();

function uploadsOf(gateway: Gateway): Map<string, Uploader> {
  const known = uploads.get(gateway) ?? new Map<string, Uploader>();
  uploads.set(gateway, known);
  return known;
}

/** Where files and folders are dropped, or chosen, to be uploaded into a folder as one commit. */
export function UploadPlace({ place, prefix }: { readonly place: Place; readonly prefix: string }) {
  const { gateway } = useSession();
  const [sources, setSources] = useState<readonly Source[]>([]);
  const bucket = bucketOf(place);
  const [uploader, setUploader] = useState(uploadsOf(gateway).get(bucket));
  const [isOver, setOver] = useState(false);
  const [message, setMessage] = useState("");
  const names = { files: useId(), folder: useId() };

  function add(more: readonly Source[]): void {
    // Of two files of one name, the one that came last counts.
    setSources((before) => [...new Map([...before, ...more].map((one) => [one.path, one])).values()]);
  }
  function choose({ target }: ChangeEvent<HTMLInputElement>): void {
    const files = [...(target.files ?? [])];
    add(files.map((file) => ({ file, path: prefix + (file.webkitRelativePath || file.name) })));
    target.value = "";
  }
  async function drop(event: DragEvent): Promise<void> {
    event.preventDefault();
    setOver(false);
    add(await droppedFiles(event.dataTransfer, prefix));
  }
  function start(): void {
    const made = new Uploader(gateway, sources, { place, message: message.trim() });
    uploadsOf(gateway).set(bucket, made);
    setUploader(made);
    setSources([]);
    void made.run();
  }
  function close(): void {
    uploadsOf(gateway).delete(bucket);
    setUploader(undefined);
  }
  const bytes = sources.reduce((sum, { file }) => sum + file.size, 0);
  return (
    <section
      aria-label="Upload"
      className={isOver ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => void drop(event)}
    >
      {uploader ? (
        <Running uploader={uploader} place={place} close={close} />
      ) : sources.length > 0 ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            start();
          }}
        >
          <p>
            <b>{counted(sources.length, "file")}</b>, {sizeText(bytes)}, into{" "}
            <Mono>{cliAddress(place, prefix).text}</Mono> as one commit:{" "}
            <span className="quiet">
              {sources
                .slice(0, 5)
                .map(({ path }) => path.slice(prefix.length))
                .join(", ")}
              {sources.length > 5 && ` and ${countText(sources.length - 5)} more`}
            </span>
          </p>
          <p className="line">
            <Field label="Message of the commit" value={message} set={setMessage} />
          </p>
          <p className="actions">
            <button type="submit" className="main">
              Upload
            </button>
            <Button act={() => setSources([])}>Cancel</Button>
          </p>
        </form>
      ) : (
        <>
          <p>
            Drop files and folders here: they come into <Mono>{cliAddress(place, prefix).text}</Mono> as one
            commit.
          </p>
          <p className="actions">
            <label className="button" htmlFor={names.files}>
              Choose files
            </label>
            <input id={names.files} className="hidden" type="file" multiple onChange={choose} />
            <label className="button" htmlFor={names.folder}>
              Choose a folder
            </label>
            <input
              id={names.folder}
              className="hidden"
              type="file"
              onChange={choose}
              ref={(field) => {
                if (field) field.webkitdirectory = true;
              }}
            />
            <CliLine line={command`sluice cp FILE… ${cliAddress(place, prefix)}`} />
          </p>
        </>
      )}
    </section>
  );
}

interface RunningProps {
  readonly uploader: Uploader;
  readonly place: Place;
  close(): void;
}

/** An upload that is under way, and how it ended. */
function Running({ uploader, place, close }: RunningProps) {
  const progress = useSyncExternalStore(uploader.subscribe, uploader.progress);
  const { step, files, sentFiles, bytes, sentBytes, failed, fault, commit } = progress;
  const isUnderWay = step === "sending" || step === "finishing";
  useBeforeUnload(isUnderWay || step === "stuck");
  const wasAt = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    if (!isUnderWay) wasAt.current?.focus();
  }, [isUnderWay]);
  return (
    <>
      {isUnderWay && (
        <p className="progress">
          <progress value={sentBytes + sentFiles} max={bytes + files} aria-label="What is sent" />
          <span>
            {countText(sentFiles)} of {counted(files, "file")}, {sizeText(sentBytes)} of {sizeText(bytes)}
          </span>
        </p>
      )}
      <p ref={wasAt} tabIndex={-1} role="status">
        {step === "finishing" && "All is there. The commit is being made…"}
        {step === "cancelled" && `Nothing of it was kept. ${fault ?? ""}`}
        {step === "done" &&
          (commit ? (
            <>
              {counted(files, "file")} uploaded as one commit.{" "}
              <Link href={diffHref(place, { to: commit })}>What it changed</Link>
            </>
          ) : (
            "All of it was there already, as it is: no commit was made."
          ))}
      </p>
      {step === "stuck" && <Fault words={fault} />}
      {step === "stuck" && failed.length > 0 && (
        <div role="alert">
          <p className="bad">
            {counted(failed.length, "file")} could not be sent, so that no commit was made. The others are
            kept for an hour.
          </p>
          <ul>
            {failed.slice(0, 20).map(({ path, why }) => (
              <li key={path}>
                <Mono>{path}</Mono> {why}
              </li>
            ))}
          </ul>
        </div>
      )}
      <p className="actions">
        {step === "stuck" && (
          <Button className="main" act={() => uploader.run()}>
            Try again
          </Button>
        )}
        {(isUnderWay || step === "stuck") && (
          <Button act={() => uploader.cancel()}>{step === "stuck" ? "Give it up" : "Cancel"}</Button>
        )}
        {(step === "done" || step === "cancelled") && <Button act={close}>Upload more</Button>}
        {step === "done" && commit && <Link href={branchHref(place, "history")}>History</Link>}
      </p>
    </>
  );
}

/** Who leaves the page in the middle is asked first. */
function useBeforeUnload(isOn: boolean): void {
  useEffect(() => {
    if (!isOn) return;
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isOn]);
}

/** The files that were dropped, those in folders with the paths that they have there. */
async function droppedFiles({ items, files }: DataTransfer, prefix: string): Promise<Source[]> {
  // Entries are asked for at once: the transfer is empty after the event.
  const entries = [...items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  if (entries.length === 0) return [...files].map((file) => ({ file, path: prefix + file.name }));
  const found: Source[] = [];
  for (let next = entries.shift(); next; next = entries.shift()) {
    if (next.isDirectory) entries.push(...(await entriesIn(next as FileSystemDirectoryEntry)));
    else if (next.isFile) {
      found.push({
        file: await fileOf(next as FileSystemFileEntry),
        path: prefix + next.fullPath.replace(/^\//, ""),
      });
    }
  }
  return found;
}

async function entriesIn(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    // Browsers give some at a time; none: that was all.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return all;
    all.push(...some);
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

import { lazy, type ReactNode, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { Bucket, type FileStart, type Place } from "../../../gateway/s3.ts";
import { useRead } from "../../../gateway/session.ts";
import { Button, Fault } from "../../../parts/form.tsx";
import { Scrolled, Section } from "../../../parts/page.tsx";
import { sizeText } from "../../../parts/words.tsx";
import { lastName } from "../../addresses.ts";
import { type Kind, kindOf, textOf } from "./kind.ts";
import { Markdown } from "./markdown/markdown.tsx";
import { isFlatList, rowsOf, Table, type TableKind } from "./table.tsx";
import { Tree } from "./tree.tsx";

/*
 * What is in a file, as far as it can be shown: what it holds becomes text of this page, or the source of an element that
 * runs nothing. Nothing of it is ever taken for HTML. So much is fetched and no more: the first bytes for text and tables,
 * whole pictures and sounds up to a bound.
 */

/** Most that is fetched of text, if somebody asks for more of it. */
const MOST_TEXT = 4 * 1024 * 1024;
/** Pictures that come by themselves, and the most that is fetched of a picture, a sound or a film when asked. */
const MEDIA_BY_ITSELF = 8 * 1024 * 1024;
const MOST_MEDIA = 64 * 1024 * 1024;
/** A larger drawing is shown as its text. */
const MOST_SVG = 1024 * 1024;

/** What reads Parquet is loaded with the first such file. */
const Parquet = lazy(() => import("./parquet/parquet.tsx"));

interface PreviewProps {
  readonly place: Place;
  readonly path: string;
  readonly start: FileStart;
}

export function Preview(props: PreviewProps) {
  return (
    <Section title="Preview">
      {props.start.size === 0 ? <p className="quiet">The file has no bytes.</p> : <Shown {...props} />}
    </Section>
  );
}

function Shown({ place, path, start: first }: PreviewProps) {
  const [more, askMore] = useState(false);
  const { repo, branch, at } = place;
  const larger = useRead<FileStart>(
    ["more", repo, branch, at, path, first.etag],
    (gateway, signal) => new Bucket(gateway, place).start(path, { most: MOST_TEXT, signal }),
    { isAsked: more },
  );
  const start = larger.data ?? first;
  const kind = useMemo(() => kindOf(start.bytes, { path, type: start.type }), [start, path]);
  const isCut = start.bytes.length < start.size;
  if (kind.is === "gzip") return <Unzipped path={path} start={start} />;
  if (kind.is === "parquet") {
    return (
      <Suspense fallback={<p className="quiet">Reading it…</p>}>
        <Parquet place={place} path={path} start={first} />
      </Suspense>
    );
  }
  if (kind.is === "pdf") {
    return <p>It is a PDF, which is not drawn here: download it, and open it in what you read such with.</p>;
  }
  if (kind.is === "image" || kind.is === "audio" || kind.is === "video") {
    return <Media place={place} path={path} start={first} kind={kind} />;
  }
  return (
    <>
      <Content bytes={start.bytes} kind={kind} isCut={isCut} name={lastName(path)} />
      {isCut && kind.is !== "binary" && (
        <p className="actions">
          <span className="quiet">
            Shown are the first {sizeText(start.bytes.length)} of {sizeText(start.size)}.
          </span>
          {!more && (
            <Button act={() => askMore(true)}>
              {start.size > MOST_TEXT ? `Show the first ${sizeText(MOST_TEXT)}` : "Show all of it"}
            </Button>
          )}
          {more && !larger.data && !larger.fault && <span className="quiet">Asking the gateway…</span>}
          <Fault words={larger.fault?.message} as="span" />
        </p>
      )}
    </>
  );
}

interface ContentProps {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly kind: Kind;
  /** More bytes are in the file. */
  readonly isCut: boolean;
  readonly name: string;
}

/** Text in the form that suits it. */
function Content({ bytes, kind, isCut, name }: ContentProps) {
  const text = useMemo(() => (kind.is === "binary" ? "" : textOf(bytes)), [bytes, kind.is]);
  if (kind.is === "binary") return <Hex bytes={bytes} />;
  if (kind.is === "svg" && !isCut && bytes.length <= MOST_SVG) {
    return <TwoForms name="As a drawing" text={text} form={<DrawnText text={text} name={name} />} />;
  }
  if (kind.is === "markdown") {
    const plain = <Text text={text} />;
    return <TwoForms name="Drawn" text={text} form={<Markdown text={text} otherwise={plain} />} />;
  }
  if (kind.is === "json") return <Json text={text} isCut={isCut} />;
  if (kind.is === "table" || kind.is === "json-lines") {
    return <AsTable key={kind.is} text={text} kind={kind.is} isCut={isCut} />;
  }
  return <Text text={text} />;
}

function Text({ text }: { readonly text: string }) {
  return <Scrolled className="text" label="Text" text={text} />;
}

interface TwoFormsProps {
  readonly form: ReactNode;
  readonly text: string;
  readonly name: string;
}

/** One of two forms, and a button for the other. */
function TwoForms({ form, text, name }: TwoFormsProps) {
  const [isText, setText] = useState(false);
  return (
    <>
      <p className="actions">
        <Button aria-pressed={isText} act={() => setText(!isText)}>
          {isText ? name : "As text"}
        </Button>
      </p>
      {isText ? <Text text={text} /> : form}
    </>
  );
}

/** What a promise came to. Undefined: it is on its way. */
function useMade<T>(make: () => Promise<T>): T | undefined {
  const [made, setMade] = useState<T>();
  useEffect(() => {
    let isLeft = false;
    void make().then((value) => isLeft || setMade(() => value));
    return () => {
      isLeft = true;
    };
  }, [make]);
  return made;
}

interface AsTableProps {
  readonly text: string;
  readonly kind: TableKind;
  readonly isCut: boolean;
}

function AsTable({ text, kind, isCut }: AsTableProps) {
  const make = useCallback(async () => {
    try {
      return (await rowsOf(kind, text, isCut)) ?? "none";
    } catch {
      return "none";
    }
  }, [kind, text, isCut]);
  const rows = useMade(make);
  if (rows === undefined) return <p className="quiet">Reading it…</p>;
  if (rows === "none") return <Text text={text} />;
  return <TwoForms name="As a table" text={text} form={<Table {...rows} isCut={isCut} />} />;
}

/** JSON, folded; a list of flat objects is a table. */
function Json({ text, isCut }: { readonly text: string; readonly isCut: boolean }) {
  const parsed = useMemo(() => parsedJson(text), [text]);
  // What is no JSON, or cut.
  if (!parsed) return <Text text={text} />;
  if (isFlatList(parsed.value)) return <AsTable text={text} kind="json" isCut={isCut} />;
  return <TwoForms name="Folded" text={text} form={<Tree value={parsed.value} />} />;
}

function parsedJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/**
 * A drawing in an `img`, in which nothing of it runs. Its address has the bytes themselves: unlike a blob, what is opened of
 * that in a tab of its own is of no origin.
 */
function DrawnText({ text, name }: { readonly text: string; readonly name: string }) {
  const source = useMemo(() => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`, [text]);
  return <img className="media" src={source} alt={`What ${name} shows`} />;
}

type MediaKind = Extract<Kind, { readonly type: string }>;

/** A picture, a sound or a film, which are fetched whole. */
function Media({ place, path, start, kind }: PreviewProps & { readonly kind: MediaKind }) {
  const { repo, branch, at } = place;
  const { size } = start;
  const isHere = start.bytes.length >= size;
  const [isAsked, ask] = useState(kind.is === "image" && size <= MEDIA_BY_ITSELF);
  const whole = useRead<FileStart>(
    ["whole", repo, branch, at, path, start.etag],
    (gateway, signal) => new Bucket(gateway, place).start(path, { most: MOST_MEDIA, signal }),
    { isAsked: isAsked && !isHere },
  );
  if (size > MOST_MEDIA) {
    return <p>It has more than the {sizeText(MOST_MEDIA)} that are fetched for a preview: download it.</p>;
  }
  if (whole.fault) return <Fault words={whole.fault.message} />;
  const bytes = isHere ? start.bytes : whole.data?.bytes;
  if (!isAsked) {
    return (
      <Button act={() => ask(true)}>
        {kind.is === "image" ? "Show it" : "Play it"} ({sizeText(size)})
      </Button>
    );
  }
  if (!bytes) return <p className="quiet">Asking the gateway for {sizeText(size)}…</p>;
  return <Blobbed bytes={bytes} kind={kind} name={lastName(path)} />;
}

/** A picture whose bytes are all here. */
export function Picture({ start, kind, name }: { start: FileStart; kind: Kind; name: string }) {
  if (kind.is === "svg") return <DrawnText text={textOf(start.bytes)} name={name} />;
  return "type" in kind && <Blobbed bytes={start.bytes} kind={kind} name={name} />;
}

interface BlobbedProps {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly kind: MediaKind;
  readonly name: string;
}

function Blobbed({ bytes, kind: { is, type }, name }: BlobbedProps) {
  const [source, setSource] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([bytes], { type }));
    setSource(made);
    return () => URL.revokeObjectURL(made);
  }, [bytes, type]);
  if (isBroken) return <p>The browser can't show it: it is damaged, or of a form that it does not know.</p>;
  if (source === undefined) return null;
  const broke = (): void => setBroken(true);
  if (is === "image")
    return <img className="media" src={source} alt={`What ${name} shows`} onError={broke} />;
  const Player = is;
  return (
    <Player
      {...(is === "video" && { className: "media" })}
      src={source}
      controls
      aria-label={name}
      onError={broke}
    />
  );
}

/** What is packed in a file, by its first bytes. */
function Unzipped({ path, start }: { readonly path: string; readonly start: FileStart }) {
  const inner = path.replace(/\.gz$/i, "");
  const bytes = useMade(useCallback(() => unzippedStart(start.bytes, MOST_TEXT), [start.bytes]));
  if (!bytes) return <p className="quiet">Unpacking it…</p>;
  if (bytes.length === 0) return <Hex bytes={start.bytes} />;
  const isCut = start.bytes.length < start.size || bytes.length >= MOST_TEXT;
  const kind = kindOf(bytes, { path: inner, type: "" });
  const shown: Kind = SHOWN_AS_TEXT.has(kind.is) ? kind : { is: "binary" };
  return (
    <>
      <p className="quiet">
        It is packed with gzip; shown is {isCut ? "the beginning of " : ""}what is in it.
      </p>
      <Content bytes={bytes} kind={shown} isCut={isCut} name={lastName(inner)} />
    </>
  );
}

const SHOWN_AS_TEXT: ReadonlySet<Kind["is"]> = new Set([
  "text",
  "markdown",
  "table",
  "json",
  "json-lines",
  "svg",
]);

/** What is packed in bytes, as far as they go, at most so much; nothing if they are no gzip. */
async function unzippedStart(bytes: Uint8Array<ArrayBuffer>, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
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
  return new Uint8Array(await new Blob(chunks).arrayBuffer()).subarray(0, most);
}

const MOST = 512;
const WIDTH = 16;

/** The first bytes of what is no text. */
function Hex({ bytes }: { readonly bytes: Uint8Array }) {
  const shown = bytes.subarray(0, MOST);
  const lines = Array.from({ length: Math.ceil(shown.length / WIDTH) }, (_, index) =>
    lineOf(shown.subarray(index * WIDTH, (index + 1) * WIDTH), index * WIDTH),
  );
  return (
    <>
      <p className="quiet">This file is neither text nor a picture. These are its first bytes:</p>
      <Scrolled className="text" label="Bytes" text={lines.join("\n")} />
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

import { useMemo, useState } from "react";
import { Bucket, type FileStart, type Place } from "../../../gateway/s3.ts";
import { useRead } from "../../../gateway/session.ts";
import { CliLine, command } from "../../../parts/cli-line.tsx";
import { Button, Fault } from "../../../parts/form.tsx";
import { sizeText } from "../../../parts/words.tsx";
import { lastName } from "../../addresses.ts";
import { type Kind, kindOf, textOf } from "../preview/kind.ts";
import { Picture } from "../preview/preview.tsx";
import { Lines } from "./lines.tsx";
import { keyed, Rows } from "./rows.tsx";

/*
 * How a file differs between two commits, side by side: text by line, tables by row, pictures as two of them. Like a preview, it
 * makes text of what it reads, or the source of an element that runs nothing.
 */

/** Most that is fetched of each side. A larger text is not compared here, which takes time with what differs. */
const MOST_BYTES = 8 * 1024 * 1024;
const MOST_TEXT = 1024 * 1024;

interface CompareProps {
  readonly place: Place;
  readonly path: string;
  /** Commits. */
  readonly from: string;
  readonly to: string;
  /** Of the larger side. */
  readonly size: number;
}

export default function Compare({ place, path, from, to, size }: CompareProps) {
  const before = useSide({ ...place, at: from }, path, size);
  const after = useSide({ ...place, at: to }, path, size);
  const fault = before.fault ?? after.fault;
  if (fault) return <Fault words={fault.message} />;
  if (size > MOST_BYTES) return <TooLarge place={place} path={path} from={from} to={to} size={size} />;
  if (!before.data || !after.data) return <p className="quiet">Asking the gateway…</p>;
  const left = kindOf(before.data.bytes, { path, type: before.data.type });
  const right = kindOf(after.data.bytes, { path, type: after.data.type });
  if (isPicture(left) && isPicture(right)) {
    const sides = [
      { words: "Before", start: before.data, kind: left },
      { words: "After", start: after.data, kind: right },
    ];
    return (
      <div className="pictures">
        {sides.map(({ words, start, kind }) => (
          <figure key={words}>
            <figcaption>{words}</figcaption>
            <Picture start={start} kind={kind} name={`${lastName(path)} ${words.toLowerCase()}`} />
          </figure>
        ))}
      </div>
    );
  }
  if (!TEXTS.has(left.is) || !TEXTS.has(right.is)) {
    return <p className="quiet">They are no text and no pictures, and are not compared.</p>;
  }
  if (size > MOST_TEXT) return <TooLarge place={place} path={path} from={from} to={to} size={size} />;
  return (
    <Texts before={before.data} after={after.data} isTable={left.is === "table" && right.is === "table"} />
  );
}

const TEXTS: ReadonlySet<Kind["is"]> = new Set(["text", "table", "json", "json-lines", "svg", "markdown"]);

function isPicture({ is }: Kind): boolean {
  return is === "image" || is === "svg";
}

function useSide(place: Place, path: string, size: number) {
  const { repo, branch, at } = place;
  return useRead<FileStart>(
    ["side", repo, branch, at, path],
    (gateway, signal) => new Bucket(gateway, place).start(path, { most: MOST_BYTES, signal }),
    { isAsked: size <= MOST_BYTES },
  );
}

/** The command line compares files of any size. */
function TooLarge({ place: { repo, branch }, path, from, to, size }: CompareProps) {
  const bucket = `${branch}.${repo}`;
  return (
    <p>
      With {sizeText(size)} it is not compared here.{" "}
      <CliLine line={command`sluice commit diff ${bucket} ${from} ${to} --text --path ${path}`} />
    </p>
  );
}

interface TextsProps {
  readonly before: FileStart;
  readonly after: FileStart;
  readonly isTable: boolean;
}

function Texts({ before, after, isTable }: TextsProps) {
  const [isByLine, setByLine] = useState(false);
  const [left, right] = useMemo(() => [textOf(before.bytes), textOf(after.bytes)], [before, after]);
  const tables = useMemo(() => (isTable ? keyed(left, right) : undefined), [isTable, left, right]);
  if (!tables) return <Lines before={left} after={right} />;
  return (
    <>
      <p className="actions">
        <Button aria-pressed={isByLine} act={() => setByLine(!isByLine)}>
          {isByLine ? "By row" : "By line"}
        </Button>
      </p>
      {isByLine ? <Lines before={left} after={right} /> : <Rows {...tables} />}
    </>
  );
}

import type { Gateway } from "../../../../gateway/gateway.ts";
import { Bucket, type FileStart, type Place } from "../../../../gateway/s3.ts";
import { useRead } from "../../../../gateway/session.ts";
import { counted, countText } from "../../../../parts/words.tsx";
import { Table } from "../table.tsx";
import type { ParquetFound, Piece } from "./reader.ts";

/** What is read of the end of a file at first: most footers are in it. */
const TAIL_BYTES = 512 * 1024;
/** Calls that read bytes, with the one that read the file's first. */
const MOST_CALLS = 4;

interface ParquetProps {
  readonly place: Place;
  readonly path: string;
  readonly start: FileStart;
}

/** A Parquet file: its columns, how many rows it has, and the first of them. */
export default function Parquet({ place, path, start }: ParquetProps) {
  const { repo, branch, at } = place;
  const { data, fault } = useRead(["parquet", repo, branch, at, path, start.etag], (gateway, signal) =>
    found(gateway, { place, path, start, signal }),
  );
  if (fault) return <p>{`It says that it is Parquet, and can't be read as such: ${fault.message}.`}</p>;
  if (!data) return <p className="quiet">Reading it…</p>;
  const { rows, groups, codecs, columns, moreColumns, head, cells, left } = data;
  return (
    <>
      <p className="facts">
        <b>{counted(rows, "row")}</b>
        <span>{counted(columns.length + moreColumns, "column")}</span>
        <span>{counted(groups, "group of rows", "groups of rows")}</span>
        <span className="quiet">{codecs.join(", ").toLowerCase()}</span>
      </p>
      <details>
        <summary>Columns</summary>
        <Table
          label="Columns"
          of="column"
          head={["name", "type"]}
          rows={columns.map(({ name, type }) => [name, type])}
          isCut={moreColumns > 0}
        />
      </details>
      {cells.length > 0 && <Table head={head} rows={cells} isCut={rows > cells.length} />}
      {left.length > 0 && (
        <p className="quiet">
          {`Not shown: ${left
            .slice(0, 5)
            .map(({ name, why }) => `${name}, since ${why}`)
            .join("; ")}`}
          {left.length > 5 && `, and ${countText(left.length - 5)} more`}.
        </p>
      )}
    </>
  );
}

/** Reads of the file what it takes: its end, then what that says where the first rows are. */
async function found(
  gateway: Gateway,
  { place, path, start: { size, bytes, etag }, signal }: ParquetProps & { signal: AbortSignal },
): Promise<ParquetFound> {
  const bucket = new Bucket(gateway, place);
  const pieces: Piece[] = [{ start: 0, bytes }];
  let calls = 1;
  const fetch = async (range: { start: number; end: number }): Promise<void> => {
    pieces.push({ start: range.start, bytes: await bucket.part(path, { ...range, etag, signal }) });
    calls++;
  };
  if (bytes.length < size) await fetch({ start: Math.max(0, size - TAIL_BYTES), end: size });
  const { readParquet } = await import("./reader.ts");
  for (;;) {
    const answer = await readParquet({ size, pieces, isLast: calls === MOST_CALLS }, signal);
    if (!answer.wants) return answer;
    await fetch(answer.wants);
  }
}

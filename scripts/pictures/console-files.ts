import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../test/support/dev-server.ts";

/** The repo whose files are of many kinds, and differ between its tag and now. */
export const TRIPS = "trips";
export const TRIPS_TAG = "spring";

const README = `# Trips of the city's bicycles

What the docks report each night, and **what is done** with it. See [the operator](https://bicycles.example.com).

| file | what it has |
|---|---|
| \`stops.csv\` | a row for each dock |
| \`trips.parquet\` | a row for each trip |

1. A trip begins at one dock and ends at another.
2. Trips of less than a minute are left out:
   - the bicycle was put back,
   - or it was broken.

> Times are those of the docks, whose clocks are set once a week.

\`\`\`sh
sluice cp s3://master.trips/stops.csv .
\`\`\`

<script>alert("raw HTML is text")</script> ![a picture from elsewhere](https://elsewhere.example.com/a.png)
`;

const SETTINGS = {
  name: "bicycles",
  bounds: { north: 52.6, south: 52.4, east: 13.6, west: 13.1 },
  docks: Array.from({ length: 4 }, (_, n) => ({
    id: n,
    name: `dock ${n}`,
    slots: 10 + n,
    open: n !== 2,
    ...{ place: { lat: 52.5 + n / 100, lon: 13.4 }, serviced: n === 2 ? null : ["2026-10-01", "2026-11-01"] },
  })),
  reports: { nightly: true, to: "operations@bicycles.example.com" },
};

const BEFORE: Files = {
  "README.md": README,
  "settings.json": JSON.stringify(SETTINGS),
  "trips.parquet": readFileSync(join(ROOT, "test/fixtures/parquet/snappy.parquet")),
  "notes.txt": notes("The docks of the west report late.", "Two docks are closed for the winter."),
  "map.svg": map("#3b82c4", 28),
  "stops.csv": stops(12),
  "2026/10/trips-01.csv": "dock,trips\n1,20\n",
  "2026/11/trips-01.csv": "dock,trips\n1,18\n",
  "scratch/old.txt": "not needed",
};

/** What is written later: a text, a table and a picture differ. */
const AFTER: Files = {
  "notes.txt": notes("The docks of the west report in time.", "One dock is closed for the winter."),
  "map.svg": map("#c4703b", 18),
  "stops.csv": stops(13)
    .replace("dock 3,18,52.53", "dock 3,24,52.53")
    .replace(/^7,.*\n/m, ""),
};

type Files = Readonly<Record<string, Uint8Array | string>>;

/** The files of the repo, as they were when it got its tag, and those that were written anew since. */
export const TRIPS_FILES = { before: BEFORE, after: AFTER } as const;

function notes(first: string, last: string): string {
  const middle = Array.from({ length: 12 }, (_, n) => `Week ${40 + n}: ${120 + 7 * n} trips a day.`);
  return `${[first, ...middle, last].join("\n")}\n`;
}

function stops(count: number): string {
  const rows = Array.from(
    { length: count },
    (_, n) => `${n},dock ${n},${15 + n},${(52.5 + n / 100).toFixed(2)}`,
  );
  return `id,name,slots,lat\n${rows.join("\n")}\n`;
}

function map(color: string, size: number): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="320" height="160" viewBox="0 0 320 160">
  <rect width="320" height="160" fill="#eef2ee"/><path d="M0 110 C80 60 200 150 320 80" stroke="#9bb8d0" stroke-width="14" fill="none"/>
  <circle cx="120" cy="70" r="${size}" fill="${color}"/><circle cx="230" cy="50" r="14" fill="#4a6a4a"/>
</svg>`;
}

/** A specification as its author wrote it. `workers`: how many run; `isRounded`: what the command does. */
export function tripStatsText({ workers, isRounded }: { workers: number; isRounded: boolean }): string {
  return `# How many rows each table has, told each night.
pipeline:
  name: trip-stats
description: rows of each table of the trips
transform:
  image: busybox
  cmd:
    - sh
    - -c
    - |
      for f in /pfs/trips/*.csv; do
        n=$(wc -l < "$f")
        echo "$(basename $f): ${isRounded ? "about $(( n / 10 * 10 ))" : "$n"} rows" | tee /pfs/out/rows.txt
      done
inputs:
  - repo: { name: trips }
    glob: /*.csv
parallelism_spec: { strategy: CONSTANT, constant: ${workers} } # docks are few
`;
}

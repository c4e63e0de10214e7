import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

/**
 * Writes test/fixtures/s3-model.json, which has the names of what each operation of S3 takes in headers and in the query,
 * by botocore's model of S3: `npm run s3-model:generate`. It needs Python with pip, and no check needs it: the file is
 * kept in the repo. Without an argument it is made again from the version of botocore that it names; with one, from that.
 */
const FILE = join(import.meta.dirname, "../test/fixtures/s3-model.json");

interface Shape {
  readonly members?: Readonly<Record<string, { readonly location?: string; readonly locationName?: string }>>;
}

interface Model {
  readonly operations: Readonly<
    Record<
      string,
      { readonly http: { readonly requestUri: string }; readonly input?: { readonly shape: string } }
    >
  >;
  readonly shapes: Readonly<Record<string, Shape>>;
}

interface Members {
  /** In lower case. One that ends in `*` stands for all with that beginning. */
  readonly headers: readonly string[];
  readonly query: readonly string[];
}

const [version = versionOf(FILE)] = process.argv.slice(2);
const operations = Object.entries(readModel(version)).map(
  ([name, members]) => `    ${JSON.stringify(name)}: ${JSON.stringify(members)}`,
);
writeFileSync(FILE, `{\n  "botocore": "${version}",\n  "operations": {\n${operations.join(",\n")}\n  }\n}\n`);

function versionOf(file: string): string {
  return JSON.parse(readFileSync(file, "utf8")).botocore;
}

function readModel(botocore: string): Record<string, Members> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-s3-model-"));
  try {
    const pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", folder];
    execFileSync("python3", [...pip, `botocore==${botocore}`], { stdio: "inherit" });
    const file = join(folder, "botocore/data/s3/2006-03-01/service-2.json.gz");
    return membersOf(JSON.parse(gunzipSync(readFileSync(file)).toString("utf8")));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function membersOf({ operations, shapes }: Model): Record<string, Members> {
  const members = Object.entries(operations).map(([name, { http, input }]): [string, Members] => {
    const [, query = ""] = http.requestUri.split("?");
    const found = Object.values((input && shapes[input.shape]?.members) ?? {});
    const at = (location: string) =>
      found.flatMap((member) => (member.location === location && member.locationName) || []);
    const headers = [...at("header"), ...at("headers").map((beginning) => `${beginning}*`)];
    return [
      name,
      {
        headers: headers.map((header) => header.toLowerCase()).sort(),
        query: [...new URLSearchParams(query).keys(), ...at("querystring")].sort(),
      },
    ];
  });
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}

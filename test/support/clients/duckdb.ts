import { existsSync } from "node:fs";
import type { Door } from "../keys.ts";
import { mustRun, run } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";

/** Debian's, which has what tests import. */
export const PYTHON = "/usr/bin/python3";

/** Its extension `httpfs` comes as a package of its own; DuckDB itself would fetch it. */
const OPEN = `
import duckdb, json, os, sys, duckdb_ext
connection = duckdb.connect(config={"extension_directory": os.path.join(list(duckdb_ext.__path__)[0], "extensions")})
connection.execute("SET autoinstall_known_extensions = false")
connection.execute("LOAD httpfs")
`;
const QUERY = `${OPEN}
asked = json.load(sys.stdin)
connection.execute(asked["secret"])
print(json.dumps([list(row) for row in connection.execute(asked["sql"]).fetchall()], default=str))
`;

/** Whether this machine has DuckDB for Python, with httpfs of its own version. */
export async function hasDuckdb(): Promise<boolean> {
  return existsSync(PYTHON) && (await run([PYTHON, "-c", OPEN])).code === 0;
}

/** The folder of its extensions, if this machine has DuckDB for Python with httpfs. */
export async function duckdbExtensions(): Promise<string | undefined> {
  if (!(await hasDuckdb())) return undefined;
  const tell = "import duckdb_ext; print(list(duckdb_ext.__path__)[0] + '/extensions')";
  return (await mustRun([PYTHON, "-c", tell])).trim();
}

/** The rows of one statement of SQL, in which `s3://` is the gateway. */
export async function duckdb(
  { endpoint, accessKeyId, secretAccessKey }: Door,
  sql: string,
): Promise<unknown[][]> {
  const secret = `CREATE SECRET (TYPE s3, KEY_ID '${accessKeyId}', SECRET '${secretAccessKey}', REGION 'us-east-1',
    ENDPOINT '${new URL(endpoint).host}', URL_STYLE 'path', USE_SSL false)`;
  const input = JSON.stringify({ secret, sql });
  return JSON.parse(await mustRun([PYTHON, "-c", QUERY], { env: { HOME: scratchFolder() }, input }));
}

import { SCHEMA_V1 } from "./v1.ts";
import { SCHEMA_V2 } from "./v2.ts";
import { SCHEMA_V3 } from "./v3.ts";
import { SCHEMA_V4 } from "./v4.ts";
import { SCHEMA_V5 } from "./v5.ts";
import { SCHEMA_V6 } from "./v6.ts";
import { SCHEMA_V7 } from "./v7.ts";
import { SCHEMA_V8 } from "./v8.ts";
import { SCHEMA_V9 } from "./v9.ts";
import { SCHEMA_V10 } from "./v10.ts";

/**
 * The tables of a Pipeline object. `born`, `died` and `job` are numbers of its own jobs: something is there at job n
 * when `born <= n` and it has not died or `died > n`. Append only: an entry is never edited once it was released.
 */
export const MIGRATIONS: readonly string[] = [
  SCHEMA_V1,
  SCHEMA_V2,
  SCHEMA_V3,
  SCHEMA_V4,
  SCHEMA_V5,
  SCHEMA_V6,
  SCHEMA_V7,
  SCHEMA_V8,
  SCHEMA_V9,
  SCHEMA_V10,
];

import { SCHEMA_V1 } from "./versions/v1.ts";
import { SCHEMA_V2 } from "./versions/v2.ts";
import { SCHEMA_V3 } from "./versions/v3.ts";
import { SCHEMA_V4 } from "./versions/v4.ts";
import { SCHEMA_V5 } from "./versions/v5.ts";
import { SCHEMA_V6 } from "./versions/v6.ts";
import { SCHEMA_V7 } from "./versions/v7.ts";
import { SCHEMA_V8 } from "./versions/v8.ts";
import { SCHEMA_V9 } from "./versions/v9.ts";
import { SCHEMA_V10 } from "./versions/v10.ts";
import { SCHEMA_V11 } from "./versions/v11.ts";
import { SCHEMA_V12 } from "./versions/v12.ts";
import { SCHEMA_V13 } from "./versions/v13.ts";
import { SCHEMA_V14 } from "./versions/v14.ts";
import { SCHEMA_V15 } from "./versions/v15.ts";
import { SCHEMA_V16 } from "./versions/v16.ts";

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
  SCHEMA_V11,
  SCHEMA_V12,
  SCHEMA_V13,
  SCHEMA_V14,
  SCHEMA_V15,
  SCHEMA_V16,
];

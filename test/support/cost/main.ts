import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../dev-server.ts";
import { withMonths } from "./month.ts";

/** `npm run cost:generate`: works out anew what months cost, of the counts and prices that docs/cost.md has. */
const PAGE = join(ROOT, "docs/cost.md");
writeFileSync(PAGE, withMonths(readFileSync(PAGE, "utf8")));

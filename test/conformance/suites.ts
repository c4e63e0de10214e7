import { GO_SUITES } from "./go-tests.ts";
import { mc } from "./mc/mc.ts";
import { s5cmd } from "./s5cmd/s5cmd.ts";
import type { Suite } from "./suite.ts";
import { versitygw } from "./versitygw/versitygw.ts";

/** In the order of the page. */
export const SUITES: readonly Suite[] = [versitygw, ...GO_SUITES, mc, s5cmd];

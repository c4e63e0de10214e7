import { GO_SUITES } from "./go-tests.ts";
import type { Suite } from "./suite.ts";
import { versitygw } from "./versitygw/versitygw.ts";

/** In the order of the page. */
export const SUITES: readonly Suite[] = [versitygw, ...GO_SUITES];

import type { Branch } from "../../../worker/branch/branch.ts";
import { SMALL } from "./limits.ts";

const module = `../../../worker/branch/branch.ts${SMALL}`;
/** The class of branches with small limits (limits.ts). */
export const SmallBranch: typeof Branch = (await import(module)).Branch;

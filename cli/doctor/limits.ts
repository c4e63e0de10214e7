import { ConfigError } from "../../runner/agent/config.ts";
import { type ConfinementTerms, openConfinement } from "../../runner/limits/confinement.ts";
import type { Finding } from "./finding.ts";

/** Whether this machine keeps processes to the limits that were asked for. Returns no finding, and tries nothing, if none was asked for. */
export async function limitFindings(terms: ConfinementTerms): Promise<Finding[]> {
  if (Object.keys(terms.limits).length === 0) return [];
  const check = "limits";
  try {
    const confinement = await openConfinement(terms);
    await confinement?.close();
    return [{ check, state: "ok", found: "the process executor keeps them" }];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [{ check, state: "fail", found: error.message }];
  }
}

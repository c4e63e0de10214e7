import { realpath } from "node:fs/promises";
import { release } from "node:os";
import type { RunnerConfig } from "../../runner/agent/config.ts";
import { limitFault } from "../../runner/examine.ts";
import type { ConnectionOptions } from "../gateway/connection/connection.ts";
import { type RunnerTerms, runnerConfig } from "../local/runner-config.ts";
import { printJson, printText } from "../output/output.ts";
import { gatewayFindings } from "./gateway.ts";
import { loopFindings, spaceFindings } from "./loops.ts";
import {
  executorFindings,
  type Finding,
  kernelSetting,
  machineFindings,
  openTryingPlace,
  userNamespacesFinding,
} from "./machine.ts";

export interface DoctorOptions extends RunnerTerms, Omit<ConnectionOptions, "data"> {
  readonly data: string;
  readonly json?: true;
}

/** Looks at this machine as a runner with these options would find it, and prints it. Sets the exit code. */
export async function runDoctor({ json, context, endpoint, ...flags }: DoctorOptions): Promise<void> {
  const findings = await examine(flags, { context, endpoint });
  const works = findings.every(({ state }) => state !== "fail");
  if (json) printJson({ works, findings });
  else for (const finding of findings) printFinding(finding);
  process.exitCode = works ? 0 : 1;
}

// The settings are wanted, not the gateway: whether there is one is a finding.
const NOWHERE = { endpoint: "http://127.0.0.1", accessKeyId: "none", secretAccessKey: "none" };

/** What is found on this machine, and of the gateway that the options and the environment name. `data`: the runner's folder. */
export async function examine(
  flags: RunnerTerms & { readonly data: string },
  named: ConnectionOptions,
): Promise<Finding[]> {
  const config = runnerConfig(flags, { ...NOWHERE, host: process.env.SLUICE_NODE });
  const { platform, arch, version, env } = process;
  const place = await openTryingPlace(config.dataDir, config);
  try {
    const from: Parameters<typeof gatewayFindings> = [named, env];
    const folder = await realpath(place.folder);
    const executors = await executorFindings(config, folder);
    const taken = executors.find(({ state }) => state === "ok")?.check;
    const uid = process.getuid?.() ?? 0;
    const gateway = await gatewayFindings(...from);
    const isReached = gateway.some(({ check, state }) => check === "gateway" && state === "ok");
    return [
      ...machineFindings({ platform, arch, release: release(), nodeVersion: version }),
      place.finding,
      ...executors,
      // Only commands as processes need them.
      ...(taken === undefined || taken === "process"
        ? [await userNamespacesFinding({ uid, setting: kernelSetting })]
        : []),
      // Engines keep them themselves.
      ...(taken === "process" ? await limitFindings(config) : []),
      ...gateway,
      ...(isReached ? await furtherFindings(from, gateway) : []),
    ];
  } finally {
    await place.remove();
  }
}

/** What needs more than one call. Of what is almost full the gateway has told most already. */
async function furtherFindings(
  from: Parameters<typeof gatewayFindings>,
  known: readonly Finding[],
): Promise<Finding[]> {
  const space = await spaceFindings(...from);
  const news = space.filter(({ found }) => !known.some((finding) => finding.found === found));
  return [...(await loopFindings(...from)), ...news];
}

/** Whether this machine keeps processes to the limits that were asked for. Returns no finding, and tries nothing, if none was asked for. */
async function limitFindings(config: Pick<RunnerConfig, "limits" | "node">): Promise<Finding[]> {
  if (Object.keys(config.limits).length === 0) return [];
  const check = "limits";
  const fault = await limitFault(config);
  return [
    fault === undefined
      ? { check, state: "ok", found: "the process executor keeps them" }
      : { check, state: "fail", found: fault },
  ];
}

const STATE_WIDTH = 6;
const CHECK_WIDTH = 12;

function printFinding({ check, state, found, fix }: Finding): void {
  printText(`${state.padEnd(STATE_WIDTH)}${check.padEnd(CHECK_WIDTH)}${found}`);
  if (fix !== undefined) printText(`${" ".repeat(STATE_WIDTH + CHECK_WIDTH)}${fix}`);
}

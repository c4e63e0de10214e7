import { realpath } from "node:fs/promises";
import { release } from "node:os";
import { agentName } from "../../runner/pfs/folders.ts";
import { openTryingPlace } from "../doctor/data-folder.ts";
import { executorFindings } from "../doctor/executors.ts";
import type { Finding } from "../doctor/finding.ts";
import { gatewayFindings } from "../doctor/gateway.ts";
import { limitFindings } from "../doctor/limits.ts";
import { machineFindings } from "../doctor/machine.ts";
import { kernelSetting, userNamespacesFinding } from "../doctor/user-namespaces.ts";
import { DEFAULT_DATA } from "../gateway/connection.ts";
import { printJson, printLine } from "../output/output.ts";
import { runnerConfig } from "./runner-config.ts";
import type { RunnerTerms } from "./runner-options.ts";

export interface DoctorOptions extends RunnerTerms {
  readonly data: string;
  readonly json?: true;
}

/** Looks at this machine as a runner with these options would find it, and prints it. Sets the exit code. */
export async function runDoctor({ json, ...flags }: DoctorOptions): Promise<void> {
  const findings = await examine(flags);
  const works = findings.every(({ state }) => state !== "fail");
  if (json) printJson({ works, findings });
  else for (const finding of findings) printFinding(finding);
  process.exitCode = works ? 0 : 1;
}

// The settings are wanted, not the gateway: whether there is one is a finding.
const NOWHERE = { endpoint: "http://127.0.0.1", accessKeyId: "none", secretAccessKey: "none" };

async function examine(flags: Omit<DoctorOptions, "json">): Promise<Finding[]> {
  const config = runnerConfig(flags, { ...NOWHERE, host: process.env.SLUICE_NODE });
  const { platform, arch, version, env } = process;
  const place = await openTryingPlace(config.dataDir, config);
  try {
    const folder = await realpath(place.folder);
    const { node, limits } = config;
    const agent = `${await agentName()}-doctor`;
    const executors = await executorFindings({ choice: config.executor, folder, node, agent, env });
    const taken = executors.find(({ state }) => state === "ok")?.check;
    const uid = process.getuid?.() ?? 0;
    return [
      ...machineFindings({ platform, arch, release: release(), nodeVersion: version }),
      place.finding,
      ...executors,
      await userNamespacesFinding({ uid, setting: kernelSetting }),
      // Engines keep them themselves.
      ...(taken === "process" ? await limitFindings({ limits, node, agent }) : []),
      ...(await gatewayFindings({ dataDir: DEFAULT_DATA, env })),
    ];
  } finally {
    await place.remove();
  }
}

const STATE_WIDTH = 6;
const CHECK_WIDTH = 12;

function printFinding({ check, state, found, fix }: Finding): void {
  printLine(`${state.padEnd(STATE_WIDTH)}${check.padEnd(CHECK_WIDTH)}${found}`);
  if (fix !== undefined) printLine(`${" ".repeat(STATE_WIDTH + CHECK_WIDTH)}${fix}`);
}

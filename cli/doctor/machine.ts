import type { Finding } from "./finding.ts";

export interface Machine {
  readonly platform: string;
  /** The kernel's, such as `6.1.0-18-amd64`. */
  readonly release: string;
  readonly arch: string;
  readonly nodeVersion: string;
}

/** That Node is new enough is seen to before any command runs: `bin/sluice.js`. */
export function machineFindings({ platform, release, arch, nodeVersion }: Machine): Finding[] {
  const found = `${platform} ${release}, ${arch}`;
  const system: Finding =
    platform === "linux"
      ? { check: "system", state: "ok", found }
      : {
          check: "system",
          state: "fail",
          found,
          fix: "run the runner on Linux, such as in a virtual machine",
        };
  return [{ check: "node", state: "ok", found: nodeVersion }, system];
}

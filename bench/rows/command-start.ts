import { sluiceCommand, sluiceEnv } from "../../test/support/dev-server.ts";
import { run } from "../../test/support/processes.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";

/** What people type most, each over a gateway with nothing in it. */
const COMMANDS = [["ls"], ["ls", "s3://master.typed"], ["job", "list"], ["commit", "list", "master.typed"]];

/** From the start of the process to its end, with what an earlier start has compiled; the answers take a few milliseconds of it. */
export const commandStart: Row = {
  name: "command-start",
  title: "a command of the command line, from its start to its end",
  async run({ pairs: count }) {
    const gateway = await startBenchGateway();
    const env = sluiceEnv(gateway.door);
    const millisOf = async (command: readonly string[]): Promise<number> => {
      const from = performance.now();
      const { code, stderr } = await run(command, { env });
      if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}: ${stderr}`);
      return performance.now() - from;
    };
    try {
      await millisOf(sluiceCommand(["mb", "s3://master.typed"]));
      const figures = [];
      for (const args of COMMANDS) {
        const command = sluiceCommand(args);
        await millisOf(command);
        const values: number[] = [];
        while (values.length < count) values.push(await millisOf(command));
        const what = `sluice ${args.join(" ")}`;
        figures.push({ what, unit: "ms", values, compare: "nothing", target: { atMost: 300 } } as const);
      }
      return figures;
    } finally {
      await gateway.stop();
    }
  },
};

import { pino } from "pino";
import { readRunnerConfig } from "../../../../runner/agent/config.ts";
import { startRunner, stopOnSignals } from "../../../../runner/main.ts";

/** An agent as a process of its own, as `sluice runner` is one: to be signalled and killed. `argv`: data folder, node. */
const [, , data, node] = process.argv;
const named = { ...(data && { data }), ...(node && { node }) };
const config = readRunnerConfig({ executor: "process", ...named }, process.env);
const log = pino({ level: process.env.SLUICE_TEST_LOG ?? "silent" });
const runner = await startRunner(config, { log });
stopOnSignals(runner, { log });
process.stdout.write("ready\n");
await runner.done;

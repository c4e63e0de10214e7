import { pino } from "pino";
import { readRunnerConfig } from "../../../../../runner/agent/config.ts";
import { startRunner, stopOnSignals } from "../../../../../runner/main.ts";

/** An agent as a process of its own, over an engine. `argv`: data folder, executor. */
const [, , data = "", executor = ""] = process.argv;
const config = readRunnerConfig({ data, executor, node: "n1" }, process.env);
const log = pino({ level: process.env.SLUICE_TEST_LOG ?? "silent" });
const runner = await startRunner(config, { log });
stopOnSignals(runner, { log });
process.stdout.write("ready\n");
await runner.done;

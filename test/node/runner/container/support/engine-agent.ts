import { pino } from "pino";
import { readRunnerConfig } from "../../../../../runner/config.ts";
import { startRunner } from "../../../../../runner/main.ts";
import { stopOnSignals } from "../../../../../runner/signals.ts";

/** An agent as a process of its own, over an engine. `argv`: data folder, executor. */
const [, , data = "", executor = ""] = process.argv;
const config = readRunnerConfig({ data, executor, node: "n1" }, process.env);
const log = pino({ level: process.env.SLUICE_TEST_LOG ?? "silent" });
const runner = await startRunner(config, { log });
stopOnSignals(runner, { log });
process.stdout.write("ready\n");
await runner.done;

import type { LogCalls } from "../contract.ts";
import { addLogs, answerLogs } from "../views/logs.ts";
import type { PipelineFacet } from "./facet.ts";

export const logs: PipelineFacet<LogCalls> = {
  async read({ engine, ...context }, request) {
    return await answerLogs(context, {
      request,
      jobLogged: (waitMs) => engine.jobLogged(request.job, waitMs),
    });
  },

  async add(reach, { entries }) {
    const { ledger, wakes } = reach;
    if (!ledger.active()) return { lost: [...new Set(entries.map(({ lease }) => lease))] };
    const { lost, jobs } = ledger.transaction((tx) => addLogs(tx, reach, entries));
    for (const job of jobs) wakes.logged(job);
    return { lost };
  },
};

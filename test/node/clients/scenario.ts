import type { ApiTool } from "../../support/clients/api-tool.ts";

/** What every tool must be able to do that speaks the operations of the S3 API. */
export interface Scenario {
  readonly sentence: string;
  run(stage: ScenarioStage): Promise<void>;
}

export interface ScenarioStage {
  readonly tool: ApiTool;
  /** Empty, and the scenario's own. */
  readonly bucket: string;
  /** Puts files that hold their own names, past the tool: a process a call takes its time. */
  fill(keys: readonly string[]): Promise<void>;
}

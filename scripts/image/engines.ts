import type { Engine, EngineKind } from "../../runner/executors/container/engine/engine.ts";
import { findEngine } from "../../runner/executors/container/engine/find-engine.ts";
import { ProgressReader } from "../../runner/executors/images/progress-reader.ts";
import type { Image, OciLayout } from "./oci-layout.ts";
import { ImageError } from "./run-tool.ts";

/** The engines of these kinds that answer here. */
export async function enginesHere(kinds: readonly EngineKind[]): Promise<Engine[]> {
  const found = await Promise.all(kinds.map((kind) => findEngine(kind, process.env)));
  return found.flatMap((engine) => ("socket" in engine ? [engine] : []));
}

/** Puts an image into an engine under these names. Throws an ImageError if it does not take it. */
export async function load(
  { kind, socket, patient }: Engine,
  {
    layout,
    image,
    names,
  }: { readonly layout: OciLayout; readonly image: Image; readonly names: readonly string[] },
): Promise<void> {
  const said = await patient.loadImage(layout.archive(image, { names }), { quiet: true });
  const progress = new ProgressReader();
  for await (const chunk of said) progress.add(Buffer.from(chunk));
  const failure = progress.end();
  if (failure !== undefined) throw new ImageError(`${kind} at ${socket} does not take the image: ${failure}`);
}

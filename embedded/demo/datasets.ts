import { readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = join(import.meta.dirname, "../../node_modules/vega-datasets/data");

/** Real files that come with the npm package vega-datasets: US films, cars, flights, share prices, weather. */
export const FIRST_FILES = [
  "cars.json",
  "flights-2k.json",
  "flights-airport.csv",
  "movies.json",
  "stocks.csv",
  "weather.csv",
] as const;

/** The file that is put when the rest is done. */
export const LATER_FILE = "seattle-weather.csv";

/** The bytes of one of the files. */
export function readDataset(name: string): Buffer {
  return readFileSync(join(FOLDER, name));
}

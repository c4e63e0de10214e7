import { readFileSync } from "node:fs";

// The package exports only its index, which lies beside the folder of the files.
const FOLDER = new URL("../data/", import.meta.resolve("vega-datasets"));

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
  return readFileSync(new URL(name, FOLDER));
}

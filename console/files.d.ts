/** Styles that the build puts into one file beside the script. */
declare module "*.css";

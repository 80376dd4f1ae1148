/** What every view is given: `render(element, data, tools)` needs to import nothing. */

import * as colour from "regard/colour";
import * as deletion from "regard/deletion";
import * as epochs from "regard/epochs";
import * as format from "regard/format";
import * as maps from "regard/maps";
import * as overlay from "regard/overlay";
import * as page from "regard/html";
import * as pen from "regard/svg";
import * as printing from "regard/print";
import * as saving from "regard/save";
import { chart } from "regard/chart";
import { hint, unhint } from "regard/hint";
import { thumbnails } from "regard/thumbnails";

const named = { colour, deletion, epochs, format, maps, overlay };
const parts = { ...named, chart, hint, unhint, thumbnails };
export const TOOLS = { ...page, ...pen, ...saving, ...printing, ...parts };

// Props are checked against the schema that Python exports of its models: there is no second list.
import file from "./props.schema.json";

type Schema = {
  $ref?: string;
  anyOf?: Schema[];
  type?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
};

const { $defs, properties } = file as unknown as {
  $defs: Record<string, Schema>;
  properties: Record<string, Schema>;
};

export class Unfit extends Error {}

export const described = Object.keys(properties);

/** The props with all defaults filled in and nothing that the schema does not name. */
export function read(name: string, props: unknown): Record<string, unknown> {
  const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return (schema ? fit(schema, props, "props") : props) as Record<string, unknown>;
}

function fit(schema: Schema, value: unknown, where: string): unknown {
  if (schema.$ref) return fit($defs[schema.$ref.split("/").at(-1)!]!, value, where);
  if (schema.anyOf) return fitOneOf(schema.anyOf, value ?? schema.default ?? null, where);
  const given = value ?? missing(schema);
  if (schema.enum && !schema.enum.includes(given)) throw new Unfit(`${where} is none of the words it may be`);
  if ("const" in schema && given !== schema.const) throw new Unfit(`${where} is another word`);
  if (schema.type && !isA(schema.type, given)) throw new Unfit(`${where} is no ${schema.type}`);
  if (schema.type === "array" && schema.items) {
    return (given as unknown[]).map((one, place) => fit(schema.items!, one, `${where}[${place}]`));
  }
  return schema.type === "object" ? fitObject(schema, given as object, where) : given;
}

function fitOneOf(schemas: Schema[], value: unknown, where: string): unknown {
  for (const schema of schemas) {
    if (value === null && schema.type !== "null") continue;
    try {
      return fit(schema, value, where);
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
    }
  }
  throw new Unfit(`${where} is of none of the kinds it may be`);
}

function fitObject(schema: Schema, given: object, where: string): object {
  const own = new Map(Object.entries(given));
  const { additionalProperties: rest } = schema;
  if (!schema.properties) {
    if (typeof rest !== "object") return given;
    return Object.fromEntries([...own].map(([key, one]) => [key, fit(rest, one, `${where}.${key}`)]));
  }
  for (const key of schema.required ?? []) {
    if (!own.has(key)) throw new Unfit(`${where}.${key} is missing`);
  }
  return Object.fromEntries(
    Object.entries(schema.properties).map(([key, one]) => [key, fit(one, own.get(key), `${where}.${key}`)]),
  );
}

function missing(schema: Schema): unknown {
  if (schema.default !== undefined) return schema.default;
  return { array: [], object: {} }[schema.type ?? ""] ?? null;
}

function isA(type: string, value: unknown): boolean {
  switch (type) {
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

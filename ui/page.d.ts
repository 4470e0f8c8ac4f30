// What components use of the page that loads them.
declare module "@langchain/langgraph-sdk/react-ui" {
  interface Shown {
    id: string;
    name: string;
    props: Record<string, unknown>;
    metadata?: { message_id?: string };
  }
  export function useStreamContext(): {
    meta?: { ui?: Shown };
    values?: { ui?: Shown[] };
    messages?: { id?: string; content: unknown }[];
    interrupts?: { id?: string; value?: Record<string, unknown> }[];
    isLoading?: boolean;
    submit(input: object, options: object): Promise<void>;
  };
}

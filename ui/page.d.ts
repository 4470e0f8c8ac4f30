// What components use of the page that loads them.
declare module "@langchain/langgraph-sdk/react-ui" {
  export function useStreamContext(): {
    meta?: { ui?: { metadata?: { message_id?: string } } };
    messages?: { id?: string; content: unknown }[];
    interrupts?: { id?: string; value?: Record<string, unknown> }[];
    isLoading?: boolean;
    submit(input: object, options: object): Promise<void>;
  };
}

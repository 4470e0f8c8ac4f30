"""The words that saved rows repeat: a compressed row refers to them instead of holding them.

A row is compressed alone, and most of it are names that every row has.
"""

from typing import Final

# Frozen: what was compressed with these words can be read with these words only. Others need a
# cipher of their own in `deflate.Deflate`, beside this one. Those that are needed most stand last.
_WORDS: Final = """
__error__ __interrupt__ __resume__ __pregel_tasks skills resources component component_props
clarification question options answered superseded awaiting_approval validating error
cancelled failed skipped blocked uncertain missing estimated_seconds estimated_steps for_each when
depends dependencies parameters tool_selection steps step strategy parallel sequential flow
execution_plan variables expected_output expectations retry on_error output_schema image_url text
human langchain_core.messages.human HumanMessage reasoning_content refusal audio cached_tokens
reasoning_tokens cache_read cache_creation reasoning direct model observe acting observing thinking
verifying planning executing tool-call reused_from react ends thought branch:to:thought
branch:to:action observation branch:to:observation demanded iteration should_continue tool_call
server about args allow read-only destructive scheduled again intent before
langchain_core.messages.tool ToolMessage tool_call_id artifact call_ call_id tool arguments
success reason read_only token_usage completion_tokens prompt_tokens completion_tokens_details
prompt_tokens_details model_provider openai model_name plan system_fingerprint finish_reason stop
logprobs chunk_position last total_tokens input_token_details output_token_details
langchain_core.messages.ai AIMessage content additional_kwargs agent_type timestamp
response_metadata ai invalid_tool_calls usage_metadata model_validate_json upto kept phase role
action verdict verifier-response passed improvements tasks streaming answer- type name todo-list
planner-response executor-response summary-response props metadata message_id seq description
priority pending running acceptance_criteria inputs depends_on attempts rounds rounds_this_turn
denied completed request hook_context results_so_far branch:to:executor call_tools
branch:to:call_tools calls feedback result round status warnings wishes v ts id +00:00
channel_values by_role by_model model_calls input_tokens output_tokens models executor openai:
seconds tool_calls channel_versions 0000000000000000000000000000000 schema_version turn turn_id
request_message request_id allowance evidence versions_seen __input__ __start__ intake
branch:to:intake planner branch:to:planner work branch:to:work task verifier branch:to:verifier
updated_channels branch:to:finish cycles events messages spend task_completed todos ui outcome
"""

WORDS: Final = b"".join(bytes([0xA0 | len(word)]) + word.encode() for word in _WORDS.split())
"""Each as msgpack writes it, below 32 characters: its length, then itself."""

"""Stands in for a language model: one plan as a model would write it, and words made by rule.

The words are made from what stands in the prompt, and from nothing else.
"""

import json
import re
from typing import Any, Final

from langchain_core.messages import BaseMessage

from loopwright import ScriptedModel

MESSAGE: Final = "My lamp arrived broken! I am really disappointed and want my money back."
GOAL: Final = (
    f'The customer of order A-1042 writes: "{MESSAGE}" Settle it by our refund policy, and send a '
    "reply that apologises, says what was checked, what is done and when, in a professional tone."
)

_SENTIMENT: Final = """\
Judge the sentiment of a customer's message. Answer with JSON: {"tone": "upset" or "calm"}.
Message: {{global.message}}"""

_REPLY: Final = """\
Write a reply to a customer. Begin with an apology that fits the tone, then say what was checked, \
what is done and when; close professionally. Use these facts only.
Customer: {{order.customer}}
Item: {{order.item}}
Order: {{order.order_id}}
Tone: {{sentiment.tone}}
Rule: {{policy.rule}}
Refund: {{refund.refund_id}}
Amount: {{refund.amount}}
Working days: {{policy.working_days}}"""

PLAN: Final[dict[str, Any]] = {
    "goal": "A refund by the policy, and a reply to the customer",
    "globalVariables": {"order_id": "A-1042", "message": MESSAGE},
    "metadata": {"createdBy": "clerk", "estimatedSteps": 6, "complexity": "low"},
    "steps": [
        {
            "id": "order",
            "description": "What was bought",
            "tool": "find_order",
            "params": {"order_id": "{{global.order_id}}"},
            "expect": "status == 'delivered'",
        },
        {
            "id": "sentiment",
            "description": "How the customer feels",
            "tool": "llm_call",
            "params": {"prompt": _SENTIMENT},
            "expect": {
                "type": "object",
                "properties": {"tone": {"enum": ["upset", "calm"]}},
                "required": ["tone"],
            },
        },
        {
            "id": "policy",
            "description": "What the policy says",
            "tool": "refund_policy",
            "params": {"topic": "damaged"},
            "expect": "refundable == true",
        },
        {
            "id": "refund",
            "description": "The refund",
            "tool": "issue_refund",
            "params": {
                "order_id": "{{order.order_id}}",
                "amount": "{{order.paid}}",
                "reason": "{{policy.rule}}",
            },
        },
        {
            "id": "reply",
            "description": "The reply in words",
            "tool": "llm_call",
            "params": {"prompt": _REPLY},
            "expect": "result contains 'sorry' and result contains 'refund'"
            " and result contains 'working days' and result contains 'Kind regards'",
        },
        {
            "id": "send",
            "description": "The reply goes out",
            "tool": "send_reply",
            "params": {"order_id": "{{global.order_id}}", "text": "{{reply}}"},
        },
    ],
}

_UPSET: Final = ("angry", "annoyed", "broken", "disappointed", "terrible", "!")


def clerk() -> ScriptedModel:
    """A chat model for this case; each role it plays answers by rule."""
    return ScriptedModel(
        {
            "flow_planner": [PLAN],
            "llm_call": _written,
            "answerer": _answered,
            "recovery": [{"strategy": "give_up", "reason": "This plan is the only one I know."}],
        }
    )


def _written(messages: list[BaseMessage], _: list[str]) -> str:
    asked = messages[-1].text
    facts = dict(re.findall(r"^([A-Z][a-z ]+): (.*)$", asked, re.MULTILINE))
    if "Message" in facts:
        hurt = any(word in facts["Message"].lower() for word in _UPSET)
        return json.dumps({"tone": "upset" if hurt else "calm"})
    return _letter(facts)


def _letter(facts: dict[str, str]) -> str:
    understood = " I understand how annoying that is." if facts["Tone"] == "upset" else ""
    return (
        f"Dear {facts['Customer']},\n\n"
        f"I am sorry about your {facts['Item']}.{understood}\n\n"
        f"I have checked order {facts['Order']} against our policy: {facts['Rule']}. "
        f"Your refund {facts['Refund']} of {float(facts['Amount']):.2f} EUR is made and will be "
        f"with you within {facts['Working days']} working days.\n\n"
        "Kind regards\nCustomer care"
    )


def _answered(messages: list[BaseMessage], _: list[str]) -> str:
    """What was done, by the ids that the steps gave, with the steps they are taken from."""
    refund, reply = (re.findall(rf"\b{kind}-\d+", messages[-1].text) for kind in "RM")
    done = [f"Refund {refund[-1]} is made. [refund]"] if refund else []
    done += [f"Reply {reply[-1]} is sent. [send]"] if reply else []
    return " ".join(done) or "Nothing was done. [order]"

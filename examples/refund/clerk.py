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
Customer: {{customer.name}}
Item: {{order.item}}
Order: {{order.order_id}}
Tone: {{sentiment.tone}}
Rule: {{policy.articles[0].excerpt}}
Refund: {{refund.refund_id}}
Amount: {{refund.amount}}
Time: {{time.articles[0].excerpt}}"""

PLAN: Final[dict[str, Any]] = {
    "goal": "A refund by the policy, and a reply to the customer",
    "globalVariables": {"order_id": "A-1042", "message": MESSAGE},
    "metadata": {"createdBy": "clerk", "estimatedSteps": 9, "complexity": "low"},
    "steps": [
        {
            "id": "order",
            "description": "What was bought",
            "tool": "get_order",
            "params": {"order_id": "{{global.order_id}}"},
            "expect": "status == 'delivered'",
        },
        {
            "id": "customer",
            "description": "Who bought it",
            "tool": "get_customer",
            "params": {"customer_id": "{{order.customer_id}}"},
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
            "tool": "match_faq",
            "params": {"question": "My item arrived damaged"},
            "expect": "matched == true",
        },
        {
            "id": "time",
            "description": "When the money arrives",
            "tool": "match_faq",
            "params": {"question": "When do I get my money back?"},
            "expect": "matched == true",
        },
        {
            "id": "ticket",
            "description": "The case on file",
            "tool": "create_ticket",
            "params": {
                "subject": "{{order.item}} arrived broken",
                "body": "{{global.message}}",
                "issue": "damaged {{order.order_id}}",
                "customer_id": "{{order.customer_id}}",
            },
        },
        {
            "id": "refund",
            "description": "The refund",
            "tool": "request_refund",
            "params": {
                "order_id": "{{order.order_id}}",
                "amount": "{{order.refundable}}",
                "reason": "arrived damaged, by {{policy.articles[0].id}}",
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
            "tool": "update_ticket",
            "params": {
                "ticket_id": "{{ticket.ticket_id}}",
                "message": "{{reply}}",
                "status": "solved",
                "customer_id": "{{order.customer_id}}",
            },
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
    rule = facts["Rule"].partition(": ")[2]
    return (
        f"Dear {facts['Customer']},\n\n"
        f"I am sorry about your {facts['Item']}.{understood}\n\n"
        f'I have checked order {facts["Order"]} against our policy: "{rule}" '
        f"Your refund {facts['Refund']} of {float(facts['Amount']):.2f} EUR is made: it arrives "
        f"{facts['Time'].partition(',')[0].lower()}.\n\n"
        "Kind regards\nCustomer care"
    )


def _answered(messages: list[BaseMessage], _: list[str]) -> str:
    """What was done, by the ids that the steps gave, with the steps they are taken from."""
    refund, ticket = (re.findall(rf"\b{kind}-\d+", messages[-1].text) for kind in "RT")
    done = [f"Refund {refund[-1]} is made. [refund]"] if refund else []
    done += [f"The reply is sent by ticket {ticket[-1]}. [send]"] if ticket else []
    return " ".join(done) or "Nothing was done. [order]"

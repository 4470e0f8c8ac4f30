"""The contracts by role, as the table of roles names them."""

from loopwright.state import contracts, execution_plan, snapshot
from loopwright.state.contracts import Contract
from loopwright.state.roles import ROLES

_KNOWN = {**vars(contracts), **vars(execution_plan), **vars(snapshot)}
CONTRACTS: dict[str, type[Contract]] = {
    name: _KNOWN[role.contract] for name, role in ROLES.items() if role.contract
}
OF_PLAN = [name for name in CONTRACTS if ROLES[name].graph == "plan_execute_verify"]

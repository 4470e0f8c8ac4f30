"""The contracts by role, as the table of roles names them."""

from loopwright.flow import execution_plan
from loopwright.state import contracts, desk, route, snapshot
from loopwright.state.contracts import Contract
from loopwright.state.roles import ROLES

_MODULES = (contracts, desk, execution_plan, route, snapshot)
_KNOWN = {name: one for module in _MODULES for name, one in vars(module).items()}
CONTRACTS: dict[str, type[Contract]] = {
    name: _KNOWN[role.contract] for name, role in ROLES.items() if role.contract
}
OF_PLAN = [name for name in CONTRACTS if ROLES[name].graph == "plan_execute_verify"]

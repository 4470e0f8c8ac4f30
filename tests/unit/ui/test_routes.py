"""The routes that serve the components, asked as a front end asks them."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from loopwright.ui.routes import app, build_routes, build_script


@pytest.fixture(scope="module")
def page():
    with TestClient(app) as client:
        yield client


@pytest.mark.req("S0-87")
def test_a_component_is_served_as_one_script_that_mounts_it(page):
    answer = page.post("/ui/react", json={"name": "todo-list"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    html = answer.text
    assert html.startswith('<script>{const place="{{shadowRootId}}";'), "the first is filled in"
    assert html.endswith('.mount("todo-list",place)}</script>')
    assert html.count("</script") == 1
    assert "src=" not in html.partition("</script")[0][:200], "no second request without a key"


def test_a_name_stays_a_string_whatever_it_holds(page):
    html = page.post("/ui/react", json={"name": '</script><img src=x onerror=1>"\u2028'}).text
    assert html.count("</script") == 1
    assert html.endswith(r'<\/script><img src=x onerror=1>\"\u2028",place)}</script>')


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{}", '{"name": 1}', '{"name": ""}', "[" * 4_000],
)
def test_what_names_no_component_is_refused_with_a_sentence(page, body):
    answer = page.post("/ui/react", content=body)
    assert (answer.status_code, answer.text) == (422, 'Send {"name": "<component>"} as JSON.')


def test_the_bundle_alone_is_served_and_nothing_else(page):
    assert page.get("/ui/react/entrypoint.js").text == build_script({})
    for path in ("/", "/docs", "/ui/react", "/ui/react/package.json", "/ui/../pyproject.toml"):
        assert page.get(path).status_code in {404, 405}, path
    assert {(r.path, *sorted(r.methods or ())) for r in app.routes} == {
        ("/ui/{graph}", "POST"),
        ("/ui/{graph}/entrypoint.js", "GET", "HEAD"),
    }


@pytest.mark.req("S0-90")
def test_components_of_the_operator_come_behind_ours(tmp_path):
    own = tmp_path / "own.js"
    own.write_text('register("</script>")')
    both = build_script({"LOOPWRIGHT_COMPONENTS": str(own)})
    assert both == f'{build_script({})}\n;register("</script>")'
    with TestClient(Starlette(routes=build_routes(both))) as client:
        html = client.post("/ui/x", json={"name": "card"}).text
    assert r'register("<\/script>")' in html
    assert html.count("</script") == 1

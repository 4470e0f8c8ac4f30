"""What says nothing, in any language, and what is short but an answer."""

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from loopwright.state.contracts import ExecutorResponse, VerifierResponse
from loopwright.text.sentences import says_nothing

EMPTY = """
Done. | done | DONE!!! | **Done.** | ✅ | 👍 | … | All tasks completed successfully. | OK | N/A
Everything is done. | It's done. | I have completed the task. | I've now completed all of the steps.
Sure! Done. | Done. Let me know if you need anything else! | The goal has been achieved.
任务已完成 | 任务已完成。 | 完成 | 完成了！ | 已完成 | 所有任务均已完成。
好的，任务已经完成！ | 全部搞定 | 您的请求已处理完毕。 | 操作成功 | 任務已完成
任务完成，如有其他需要请随时告诉我。 | 已順利完成
Fertig. | Erledigt! | Alle Aufgaben wurden erfolgreich abgeschlossen. | Terminé. | C'est fait.
Tâche terminée avec succès | Hecho | Todo listo. | Fatto! | Tutto completato con successo.
Tarefa concluída. | Klaar | Gotowe | Готово. | Задача выполнена. | Виконано. | Tamamlandı.
完了しました。 | タスクは完了しました | 작업이 완료되었습니다. | Đã hoàn thành.
需求已满足 | 用户的需求已全部得到满足。 | All the user's needs have been met.
Sudah selesai. | تم إنجاز المهمة بنجاح. | Pronto.
"""
HONEST = """
42 | 0 | Yes | No. | None | Berlin | 北京 | 是 | 否 | 好的 | Ja | Nein | Sí | Да | はい
π | + | € | A | x | Sure. | Of course | Everything is ok | Finished in 3 s | Done: 7 | Not done.
任务1已完成 | 订单已完成 | 订单 A-100 已完成 | 成功率 90% | 完成于2024年 | 未完成 | 没有完成
The order is completed. | Paid 5 EUR. | Undone | done by Ada | not completed | nicht fertig
Ada | true | I have completed 3 of 5 tasks.
"""


def listed(text):
    return [one.strip() for line in text.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.req("W-10", "W-106")
@pytest.mark.parametrize("text", ["", " \n", "\u200b", *listed(EMPTY)])
def test_a_phrase_without_data_is_no_final_answer_and_no_report(text):
    assert says_nothing(text)
    with pytest.raises(ValidationError, match="concrete data"):
        VerifierResponse(all_completed=True, user_needs_satisfied=True, summary=text)
    for said in ({"taskCompleted": True}, {"nextAction": "complete"}):
        with pytest.raises(ValidationError, match=r"says nothing|summary is empty"):
            ExecutorResponse.model_validate({**said, "summary": text})
    assert ExecutorResponse.model_validate({"taskCompleted": False, "summary": text})


@pytest.mark.req("W-10")
@pytest.mark.parametrize("text", listed(HONEST))
def test_a_short_answer_is_an_answer(text):
    assert not says_nothing(text)
    verdict = VerifierResponse(all_completed=True, user_needs_satisfied=True, summary=text)
    assert verdict.is_met
    assert ExecutorResponse.model_validate({"taskCompleted": True, "summary": text})


@pytest.mark.req("W-10")
@given(st.text(max_size=300))
def test_any_text_is_read(text):
    assert says_nothing(text) in (True, False)

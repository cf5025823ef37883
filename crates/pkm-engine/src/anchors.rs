//! Where the languages lie in a model's space.
//!
//! A multilingual model puts texts of one language near each other whatever they say, so a Korean
//! question finds any Korean note before the English one that answers it. What is common to a
//! language is its mean vector; taken away from both sides before the cosine, what is left is what
//! the texts say (language mean centring: Libovický, Rosa and Fraser, Findings of EMNLP 2020). The
//! means of questions and of passages come from texts of our own that say the same in both
//! languages, and [`crate::vectors`] mixes the user's own passages in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pkm_embed::{Embedder, Role};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Counts up when the texts below change.
const VERSION: u32 = 1;

/// The mean vectors of a model, a group a language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Anchors {
    version: u32,
    fingerprint: String,
    groups: Vec<Anchor>,
}

/// The means of one language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    /// Mean of questions.
    pub(crate) query: Vec<f32>,
    /// Mean of passages.
    pub(crate) passage: Vec<f32>,
}

const KOREAN: usize = 0;
const ENGLISH: usize = 1;

impl Anchors {
    /// The means of the model in use: those kept in `dir` from another time, or new ones, which
    /// takes about a second. A model of one language needs none: it has one group whose mean is
    /// zero, which leaves the plain cosine.
    pub(crate) fn of(embedder: &Arc<dyn Embedder>, dir: &Path) -> Result<Self, Error> {
        let card = embedder.card();
        if !crate::search::reads_korean(&card.languages) {
            let zero = vec![0.0; card.dim];
            let groups = vec![Anchor {
                query: zero.clone(),
                passage: zero,
            }];
            return Ok(Self {
                version: VERSION,
                fingerprint: card.fingerprint.clone(),
                groups,
            });
        }
        let path = path(dir, &card.fingerprint);
        if let Some(kept) = Self::read(&path)
            && kept.fits(&card.fingerprint, card.dim)
        {
            return Ok(kept);
        }
        let mean = |texts: &[&str], role| {
            let embedded = embedder
                .embed(texts, role)
                .map_err(|source| Error::embedding("measuring the model's languages", source))?;
            Ok::<_, Error>(mean(&embedded.vectors, card.dim))
        };
        let anchor = |queries: &[&str], passages: &[&str]| {
            Ok::<_, Error>(Anchor {
                query: mean(queries, Role::Query)?,
                passage: mean(passages, Role::Passage)?,
            })
        };
        let groups = vec![
            anchor(&KOREAN_QUESTIONS, &KOREAN_PASSAGES)?,
            anchor(&ENGLISH_QUESTIONS, &ENGLISH_PASSAGES)?,
        ];
        let made = Self {
            version: VERSION,
            fingerprint: card.fingerprint.clone(),
            groups,
        };
        made.keep(&path);
        Ok(made)
    }

    pub(crate) fn groups(&self) -> &[Anchor] {
        &self.groups
    }

    /// The group of a passage, by the mean that it is nearest to.
    pub(crate) fn group_of(&self, passage: &[f32]) -> usize {
        let nearness = |anchor: &Anchor| {
            let norm = dot(&anchor.passage, &anchor.passage)
                .sqrt()
                .max(f32::MIN_POSITIVE);
            dot(&anchor.passage, passage) / norm
        };
        let mut best = 0;
        for group in 1..self.groups.len() {
            if nearness(&self.groups[group]) > nearness(&self.groups[best]) {
                best = group;
            }
        }
        best
    }

    /// The group of a query, by its letters: a question is too short to be placed by its vector.
    pub(crate) fn group_of_query(&self, query: &str) -> usize {
        let group = if crate::search::is_korean(query) {
            KOREAN
        } else {
            ENGLISH
        };
        group.min(self.groups.len() - 1)
    }

    fn fits(&self, fingerprint: &str, dim: usize) -> bool {
        self.version == VERSION
            && self.fingerprint == fingerprint
            && self.groups.len() == 2
            && self.groups.iter().all(|anchor| {
                [&anchor.query, &anchor.passage]
                    .iter()
                    .all(|mean| mean.len() == dim && mean.iter().all(|value| value.is_finite()))
            })
    }

    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Keeps the means for the next time. It costs a second when that fails, so it may.
    fn keep(&self, path: &Path) {
        let bytes = serde_json::to_vec(self).expect("numbers and a name");
        let scratch = path.with_extension(format!("{}.part", std::process::id()));
        let kept = fs::write(&scratch, bytes).and_then(|()| fs::rename(&scratch, path));
        if let Err(error) = kept {
            tracing::debug!(%error, "the model's language means are not kept");
        }
    }
}

fn path(dir: &Path, fingerprint: &str) -> PathBuf {
    let short = &fingerprint[..fingerprint.len().min(16)];
    dir.join(format!("anchors-{short}.json"))
}

fn mean(vectors: &[Vec<f32>], dim: usize) -> Vec<f32> {
    let mut sum = vec![0.0f64; dim];
    for vector in vectors {
        for (total, value) in sum.iter_mut().zip(vector) {
            *total += f64::from(*value);
        }
    }
    sum.iter()
        .map(|total| (total / vectors.len() as f64) as f32)
        .collect()
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// What people ask of their notes; line by line the same in both languages.
const KOREAN_QUESTIONS: [&str; 24] = [
    "지난 회의에서 무엇을 정했지?",
    "이번 달 생활비 얼마 썼어",
    "된장국 끓이는 법",
    "여권은 어디에 뒀더라",
    "서버가 느려진 이유가 뭐였나요?",
    "다음 치과 예약은 언제야?",
    "읽고 싶은 책 목록",
    "비행기에 가져갈 수 있는 것",
    "데이터베이스 백업은 어떻게 되돌리나",
    "식물에 물은 며칠마다 줘야 해?",
    "그 식당 이름이 뭐였지",
    "운동 계획",
    "세금 신고할 때 필요한 서류",
    "고양이 예방접종은 언제 했나요?",
    "배포가 실패하면 어떻게 해야 하나",
    "할머니 생신 선물로 뭘 드렸지?",
    "와이파이 비밀번호를 바꾸는 방법",
    "잠이 안 올 때 도움이 된 것",
    "이 오류 메시지는 무슨 뜻이야?",
    "자동차 보험료",
    "아이와 갈 만한 곳이 어디야?",
    "면접에서 어떤 질문을 받았나",
    "자전거 바퀴 바람이 빠질 때",
    "새 집을 고를 때 볼 것",
];

const ENGLISH_QUESTIONS: [&str; 24] = [
    "what did we decide at the last meeting?",
    "how much did I spend this month",
    "how to cook soybean soup",
    "where did I put my passport",
    "What was the reason the server got slow?",
    "when is my next dentist appointment?",
    "list of books I want to read",
    "what can I take on a plane",
    "how do I restore a database backup",
    "How often should I water the plants?",
    "what was the name of that restaurant",
    "workout plan",
    "documents needed for the tax return",
    "When did the cat get its vaccination?",
    "what should we do if the deployment fails",
    "what did I give grandma for her birthday?",
    "how to change the wifi password",
    "things that helped when I could not sleep",
    "What does this error message mean?",
    "car insurance cost",
    "where is a good place to go with kids?",
    "which questions did they ask in the interview",
    "bicycle tyre losing air",
    "what to look at when choosing a new home",
];

/// What notes say; line by line the same in both languages.
const KOREAN_PASSAGES: [&str; 20] = [
    "회의 요약: 출시일을 2주 미루고, 테스트는 민수가 맡기로 했다. 다음 회의는 목요일 오후 3시.",
    "이번 달 지출. 식비가 예산보다 많이 나왔다. 다음 달에는 외식을 줄이자.",
    "재료를 씻어서 썰고, 물이 끓으면 된장을 풀어 10분 더 끓인다. 두부는 마지막에 넣는다.",
    "서버 응답이 느려져서 로그를 보니 쿼리 하나가 색인을 쓰지 않고 있었다. 색인을 추가하니 해결됐다.",
    "치과에서 어금니를 치료했다. 6개월 뒤에 다시 오라고 했다.",
    "이 책의 요점은 작은 습관을 매일 되풀이하면 큰 차이가 난다는 것이다.",
    "여행 첫날은 공항에서 기차를 타고 시내로 갔다. 숙소는 강가에 있고 조용했다.",
    "백업은 매일 새벽에 돌아간다. 되돌릴 때는 먼저 서비스를 멈추고 마지막 사본을 푼다.",
    "겨울에는 물을 적게 주고 햇빛이 잘 드는 창가에 둔다. 잎이 노래지면 물이 너무 많은 것이다.",
    "골목 안에 있는 작은 국숫집. 점심에는 줄을 서야 하지만 값이 싸고 맛있다.",
    "월요일은 달리기, 수요일은 근력 운동, 토요일은 등산. 무릎이 아프면 쉰다.",
    "세금 신고에는 소득 증명서와 영수증이 필요하다. 마감은 5월 말이다.",
    "배포 절차: 태그를 만들고, 검사가 끝나면 승인을 받고, 문제가 있으면 이전 버전으로 되돌린다.",
    "할머니께 따뜻한 담요를 드렸더니 아주 좋아하셨다. 내년에는 다 같이 식사를 하기로 했다.",
    "설정 화면에서 무선 항목을 열고 새 비밀번호를 넣은 뒤 기기를 다시 연결한다.",
    "자기 전에 휴대폰을 멀리 두고 따뜻한 물로 씻으면 잠이 잘 온다.",
    "함수에 빈 값이 들어오면 오류가 난다. 먼저 값을 검사하고 알맞은 메시지를 돌려주게 고쳤다.",
    "자동차 보험을 비교해 보니 직접 가입하는 쪽이 조금 더 쌌다. 갱신은 가을에 한다.",
    "면접에서는 지난 프로젝트에서 어려웠던 점과 그것을 어떻게 풀었는지 물었다.",
    "새 집을 볼 때는 햇빛, 소음, 수압, 교통을 확인한다. 저녁에도 한 번 더 가 본다.",
];

const ENGLISH_PASSAGES: [&str; 20] = [
    "Meeting notes: the launch moves back two weeks, Minsu takes over testing. Next meeting Thursday, 3 pm.",
    "Spending this month. Food went well over the budget. Let's eat out less next month.",
    "Wash and cut everything, stir the soybean paste into boiling water and cook ten more minutes. Tofu goes in last.",
    "The server answered slowly; the log showed that one query did not use an index. Adding the index solved it.",
    "The dentist treated a molar. I have to come back in six months.",
    "The point of this book is that small habits, repeated every day, make a large difference.",
    "On the first day we took the train from the airport into town. The place to stay was quiet and by the river.",
    "The backup runs early every morning. To restore, stop the service first and unpack the last copy.",
    "Water less in winter and keep it at a sunny window. Yellow leaves mean too much water.",
    "A small noodle place in an alley. You have to queue at lunch, but it is cheap and good.",
    "Monday running, Wednesday weights, Saturday hiking. Rest when the knee hurts.",
    "The tax return needs proof of income and the receipts. It is due at the end of May.",
    "To deploy: make a tag, get approval when the checks are done, and roll back to the former version if anything is wrong.",
    "We gave grandma a warm blanket and she was very happy. Next year we will all have dinner together.",
    "Open the wireless item in the settings, enter the new password and connect the devices again.",
    "Putting the phone far away and taking a warm shower before bed helps me sleep.",
    "The function fails on an empty value. It now checks the value first and gives back a proper message.",
    "I compared car insurance and buying it directly was a little cheaper. It renews in autumn.",
    "In the interview they asked what was hard in my last project and how I had solved it.",
    "When looking at a new home, check light, noise, water pressure and transport. Go there once more in the evening.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use pkm_embed::HashEmbedder;

    #[test]
    fn the_means_are_kept_and_a_damaged_file_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new());
        let made = Anchors::of(&embedder, dir.path()).unwrap();
        let file = path(dir.path(), &embedder.card().fingerprint);
        assert_eq!(Anchors::read(&file), Some(made.clone()));
        for damaged in ["", "{}", "null", "{\"version\":1"] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(Anchors::of(&embedder, dir.path()).unwrap(), made);
        }
    }

    #[test]
    fn a_passage_is_placed_with_its_language() {
        let dir = tempfile::tempdir().unwrap();
        let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::with_dim(256));
        let anchors = Anchors::of(&embedder, dir.path()).unwrap();
        let group = |text: &str| {
            anchors.group_of(&embedder.embed(&[text], Role::Passage).unwrap().vectors[0])
        };
        assert_eq!(group(KOREAN_PASSAGES[3]), KOREAN);
        assert_eq!(group(ENGLISH_PASSAGES[3]), ENGLISH);
        assert_eq!(anchors.group_of_query("MCP 서버"), KOREAN);
        assert_eq!(anchors.group_of_query("MCP server"), ENGLISH);
    }
}

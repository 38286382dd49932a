package prompts

import "github.com/hermes-env/hermes-env/agentloop/model"

// Prices returns what the judge charges, where the reward has one.
func (e *Environment) Prices() []*model.Price {
	if !e.own.Reward.UsesJudge() {
		return nil
	}
	return []*model.Price{(*model.Price)(e.own.Judge.Price())}
}

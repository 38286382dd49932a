package config

// Values of env.advantages.
const (
	AdvantagesNone    = "none"     // the trainer works them out
	AdvantagesMean    = "mean"     // score less the mean of the group
	AdvantagesMeanStd = "mean_std" // that, divided by the standard deviation
)

// Values of env.on_tampering.
const (
	TamperingKeep     = "keep"     // the score stays as the environment gave it
	TamperingZero     = "zero"     // the rollout is scored 0
	TamperingUnscored = "unscored" // the rollout has no score
)

// Values of env.truncated_rollouts.
const (
	TruncatedKeep = "keep"
	TruncatedZero = "zero_advantage" // in the group, and not trained on
	TruncatedDrop = "drop"
)

package openai

import judgeprompts "github.com/verigraph/verigraph/configs/prompts/judge"

func loadPromptForTest() (*prompt, error) {
	return loadPrompt(judgeprompts.FS, "entails", entailsSchema)
}
